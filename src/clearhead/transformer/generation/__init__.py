"""Text from a model, token by token.

One call runs through the files in this order: ``prompts`` makes ids of what was given, ``limits``
settles how many tokens there may be, ``reading`` runs the model, ``sampling`` chooses a token,
``wording`` makes text of it and ``writing`` ends a row when it should end.
"""
