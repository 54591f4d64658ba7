import type { PublicError } from '../../../server/errors.ts'
import type { Backend } from '../../backends/backend/backend.ts'
import { READ } from '../../call/answer-translation.ts'
import type { AnswerCheck } from '../../call/asked.ts'
import { memberText } from '../../mcp/json.ts'
import type { EndpointRequest } from '../incoming/endpoint-exchange.ts'

/** The largest answer that contains a page, in bytes. */
const MOST_BYTES = 4 * 1024 * 1024

/**
 * Returns the check for a read of an app's page; undefined if the backend has no pins, or the URI is not a page's. An
 * unapproved page is answered like a missing resource (`missing`), so that nothing of it reaches the client.
 */
export function pageCheck(
  { era, gateway }: EndpointRequest,
  backend: Backend,
  uri: string,
  missing: () => PublicError,
): AnswerCheck | undefined {
  const { definitions, tools = [] } = backend
  if (definitions.pins === undefined) return undefined
  if (!definitions.isPage(uri) && !tools.some(({ app }) => app?.uri === uri)) return undefined
  return {
    mostBytes: MOST_BYTES,
    isRequired: definitions.areEnforced,
    checked(result = '') {
      const contents = memberText(result, 'contents')
      const reason = definitions.reasonAgainstPage(uri, contents)
      gateway.approvals.pageRead(backend, uri, reason)
      if (reason !== undefined || contents === undefined) return missing()
      // Other members of the result are not approved, so they are left out.
      return era === 'modern' ? `{${READ},"contents":${contents}}` : `{"contents":${contents}}`
    },
  }
}
