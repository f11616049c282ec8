package native

// libraryHash is the SHA-256 of the library this package was last built for. The build writes it into
// libhash_generated.go: cmd/go does not hash the static library, so without a changed Go file it would go on linking,
// and testing with, the old one.
var libraryHash = "unknown"

// LibraryHash is the SHA-256 of the linked libmortise.a in hexadecimal, or "unknown" in a build without the Makefile.
func LibraryHash() string { return libraryHash }
