"""The experiments of the four papers that rfsize rests on, run again and set beside what the papers printed."""
