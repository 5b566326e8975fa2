"""Files of training frameworks: what they say as options of ours, and plans as their files."""
