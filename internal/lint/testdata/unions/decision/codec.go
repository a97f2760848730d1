package decision

var variants = [...]Decision{CreateToken{}}
