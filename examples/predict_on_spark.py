"""
Predictions on Spark
====================

Spark sends the forest to each worker once, and predicts where the rows are.
"""

# sphinx_gallery_thumbnail_path = '_static/thumbnails/predict_on_spark.svg'

from pyspark.sql import SparkSession
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import rfsize
import rfsize.spark

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
names = [name.replace(" ", "_") for name in X.columns]
X_train, X_rest, y_train, _ = train_test_split(X.set_axis(names, axis=1), y, test_size=0.5, random_state=0)
model = RandomForestClassifier(300, random_state=0).fit(X_train, y_train)

# %%
# A certified stop table lets most rows use fewer trees, on Spark too.

X_certify, X_new = train_test_split(X_rest, test_size=0.3, random_state=0)
table = rfsize.StopTable.calibrate(model, X_certify, alpha=0.95)
fast = rfsize.compile(model, table)

# %%
# On a cluster, use its session.

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.createDataFrame(X_new)

# %%
# The function takes columns and returns a column of predictions.

label = rfsize.spark.predict_udf(fast)
rows.withColumn("label", label(*names)).select(*names[:3], "label").show(5)

# %%
# It can also return the probabilities of all classes.

shares = rfsize.spark.predict_udf(fast, "probability")
rows.select(shares(*names).alias("probability")).show(5, truncate=False)
spark.stop()
