"""Find the front end that computed an array of features, and grade implementations of Kaldi's features."""

from kaldi_explain.explanation import Explanation, explain
from kaldi_explain.grading import Scorecard, conform

__all__ = ["Explanation", "Scorecard", "conform", "explain"]
