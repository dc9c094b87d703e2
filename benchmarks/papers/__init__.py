"""The experiments of the four papers that rfsize rests on, run again and set beside what the papers printed.

The CSV files beside this one hold what the papers printed: figures only, errors and disagreements in per cent, "sd" the
standard deviation over the repetitions. An empty field was not printed, or cannot be told from the text that we have.
"""
