module portico.dev/test/pause

go 1.26.0
