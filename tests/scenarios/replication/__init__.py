"""Stories of one replica among several, told by what its leader, its controller and its disk do."""
