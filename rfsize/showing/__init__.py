"""What results look like: words in `text`, pictures in `plots`, pages in `html`."""
