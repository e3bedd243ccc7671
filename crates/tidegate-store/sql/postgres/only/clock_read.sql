-- Reads the clock, in microseconds.
select clock()
