"""What a terminal can show: width, colours, pager, progress."""
