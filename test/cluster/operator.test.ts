/** The operator with its own rights on one API server, which the files use one after another. */
import './operator/operator.ts'
import './operator/diff.ts'
import './operator/namespaces.ts'
import './operator/adoption.ts'
import './operator/large-status.ts'
import './operator/survival.ts'
import './operator/chaos.ts'
