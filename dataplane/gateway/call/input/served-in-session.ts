import type { Backend } from '../../backends/backend/backend.ts'
import type { Session } from '../../sessions/sessions.ts'

/** Whether a session's client is served in a session with the backend. Rejects with a BackendFailure. */
export async function isServedInSession(session: Session, backend: Backend): Promise<boolean> {
  const { era } = await backend.detect()
  const { legacySupport } = backend
  if (era === 'legacy' || session.isOpenWith(backend)) return true
  if (legacySupport.isWorthTrying) await legacySupport.open(session.backendSession(backend))
  return legacySupport.isWorthTrying
}
