"""For publishers: the wheel, notebooks for Colab, the instructor's bundle, the site."""
