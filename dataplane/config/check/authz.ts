import { policyProblems, policyProblemsStepwise } from '../../policy/index.ts'
import type { AuthzConfig } from '../gateway.ts'
import type { Finding } from '../load.ts'
import { keepFound, longCheck } from './long-check.ts'

const NAME = 'policies'
const findProblems = longCheck(NAME, policyProblems, (message) => [{ pointer: '/policies', message }])

/** Checks policies and entities; the messages are those of their parser. */
export const authzFindings = (authz: AuthzConfig, at: string): readonly Finding[] =>
  findProblems(authz).map(({ pointer, message }) => ({ pointer: `${at}${pointer}`, message }))

/** Checks policies in steps so that requests are served meanwhile, and caches the result for `authzFindings`. */
export async function checkAuthzStepwise(authz: AuthzConfig): Promise<void> {
  keepFound(NAME, authz, await policyProblemsStepwise(authz))
}
