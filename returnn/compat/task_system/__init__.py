"""The old module TaskSystem: functions and arrays for other processes."""
