// Package browsertest tests the pages of package inspector in a real browser, Chromium, over
// the DevTools protocol. It is a module of its own, so that nothing it needs is among the
// dependencies of pawl.
//
//	go test -C inspector/browsertest ./...
//
// Without Chromium the tests are skipped; with PAWL_BROWSER=required they fail. With
// -browser.shots DIR every page is kept as a PNG, light and dark, at 360 and
// 1,400 pixels. With -browser.pictures DIR the pictures of the documents are made anew in it, of
// examples/inspector.
//
// testdata/axe-4.14.1.min.js.gz is axe-core, under the Mozilla Public License 2.0, whose text
// is at https://mozilla.org/MPL/2.0/. It is part of no program.
package browsertest
