"""Why it took so long: the critical path, stalls and exposed communication, from records."""
