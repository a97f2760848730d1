// Package examples has a program in each of its folders; README.md says what they show. Its test runs them.
package examples
