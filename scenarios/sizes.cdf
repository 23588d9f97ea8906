# bytes   per cent: most responses are small, most bytes are in large ones
200       0
1000      30
10000     60
100000    85
1000000   96
10000000  100
