"""Forests of T* trees as scikit-learn estimators."""

from rfsize.sklearn.classifier import RightSizedClassifier
from rfsize.sklearn.regressor import RightSizedRegressor

__all__ = ["RightSizedClassifier", "RightSizedRegressor"]
