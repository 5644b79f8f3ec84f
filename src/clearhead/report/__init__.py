"""What a person sees: a tree of parts built from a trace, and the renderers that show it.

    build.py     Trace → LookReport
    parts.py     the tree: frozen values, every number a renderer shows stands in it
    sentences.py what every renderer says alike: sentences and cells of tables
    text.py      LookReport → terminal
    fragment.py  LookReport → static HTML for a notebook
    look.py      model and text → Look

Nothing in this folder imports torch: the parts hold plain numbers.
"""
