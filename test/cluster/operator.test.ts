/** The operator as a whole, under its own rights, on one API server: each file has it to itself, one behind the other. */
import './operator/operator.ts'
import './operator/diff.ts'
import './operator/namespaces.ts'
import './operator/adoption.ts'
import './operator/large-status.ts'
