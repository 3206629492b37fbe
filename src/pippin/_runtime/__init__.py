"""What a process needs: the disk, threads, progress."""
