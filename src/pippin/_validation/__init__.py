"""What callers have becomes checked rows, labels and class names."""
