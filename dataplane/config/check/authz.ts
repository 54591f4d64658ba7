import { policyProblems } from '../../policy/index.ts'
import type { AuthzConfig } from '../gateway-authz.ts'
import type { Finding } from '../load.ts'
import { longCheck } from './long-check.ts'

const problemsOf = longCheck('policies', policyProblems, (message) => [{ pointer: '/policies', message }])

/** What is wrong with policies and entities, in the words of their parser. */
export const authzFindings = (authz: AuthzConfig, at: string): readonly Finding[] =>
  problemsOf(authz).map(({ pointer, message }) => ({ pointer: `${at}${pointer}`, message }))
