"""Passages, a question and an answer: where the answer drew from, passage by passage.

asking.py     what is asked for, and what is wrong with it
prompt.py     passages and question, messages or a text → tokens, and which are whose
fitting.py    what does not fit into the model's context, by name and length
answering.py  the model's answer, or a given one → its tokens
looking.py    all of it together → the answer's trace and its Documents
shares.py     a survey of the answer's rows → shares by segment and by depth
parts.py      the tree: frozen values
rows.py       its rows and sentences, for every renderer
text.py       Documents → terminal
"""
