// Package lint holds the rules of the code as tests: which package may import
// which, what the pure packages may not do, that every exported name is
// documented, that the tables of the sealed unions are complete, how long
// functions and files may be, that tests ask the harness alone how much they are to
// do, what go.mod may require, and which sentences no comment and no page may have.
//
// The rules are functions over a module's directory. They run over this module
// and over the small modules under testdata, which break one rule each; their
// want.txt says what is to be found there.
package lint
