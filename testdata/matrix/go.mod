module matrix

go 1.22
