"""The experiments of the four papers that rfsize is based on, run again and compared with the printed results.

The CSV files in this folder hold the printed figures: errors and disagreements in per cent; "sd" is the standard
deviation over the repetitions. An empty field was not printed, or our copy of the text does not show it.
"""
