"""The feature-based approach: tags from the vectors of a frozen encoder.

Devlin et al. 2018, section 5.3 and table 7, an ablation; the plain tagger is
tasks/ner/model.py and needs none of this.
"""
