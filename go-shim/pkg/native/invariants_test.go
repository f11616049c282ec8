package native

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// cgo is in this package alone, and this package knows nothing of Kubernetes.
func TestImports(t *testing.T) {
	module := filepath.Join("..", "..")
	sawCgo := false
	err := filepath.WalkDir(module, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(module, path)
		if err != nil {
			return err
		}
		native := strings.HasPrefix(relative, filepath.Join("pkg", "native")+string(filepath.Separator))
		for _, spec := range file.Imports {
			name := strings.Trim(spec.Path.Value, `"`)
			if name == "C" {
				sawCgo = true
				require.True(t, native, "%s: cgo belongs into pkg/native", relative)
			}
			if native {
				require.False(t, strings.Contains(name, "k8s.io/"), "%s imports %s: Kubernetes ends at pkg/snapshot", relative, name)
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.True(t, sawCgo)
}

// Every function that is called declares that it neither keeps pointers nor comes back into Go.
func TestEveryCallIsMarked(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	fset := token.NewFileSet()
	source := ""
	for _, name := range files {
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, group := range file.Comments {
			source += group.Text()
		}
	}
	for call := range callCount {
		for _, mark := range []string{"noescape", "nocallback"} {
			require.Contains(t, source, "#cgo "+mark+" mortise_"+call.String()+"\n")
		}
	}
}
