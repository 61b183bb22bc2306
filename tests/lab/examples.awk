# SPDX-License-Identifier: MIT
# The code in the comments of headers: block N of NAME.h becomes OUT/NAME-N.inc; and the blocks
# of C of a page, OUT/NAME.md-N.inc.
#
#	awk -v out=OUT -f tests/lab/examples.awk include/dlbuf/*.h docs/prepare.md
#
# A block is what stands behind a tab in a comment of the outermost level. Lists are no code:
# they have no line that ends a statement, or begin with a dash or a word in capitals.
function flush(    name)
{
	if (code && text !~ /^(-|[A-Z_]+ )/) {
		name = FILE
		sub(/.*\//, "", name)
		sub(/\.h$/, "", name)
		name = out "/" name "-" ++blocks[FILE] ".inc"
		printf "%s", text > name
		close(name)
	}
	text = ""
	code = 0
}
FNR == 1 { flush(); FILE = FILENAME }
FILE ~ /\.md$/ {
	if (/^```/)
		flush()
	if (page)
		text = text $0 "\n"
	code = page = /^```c$/ || (page && !/^```/)
	next
}
/^ \*\t/ {
	line = substr($0, 4)
	code = code || line ~ /[;{]([ \t]*\/\/.*)?$/
	text = text line "\n"
	next
}
/^ \*$/ && text != "" { text = text "\n"; next }
{ flush() }
END { flush() }
