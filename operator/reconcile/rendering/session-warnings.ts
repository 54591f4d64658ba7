import type { Conditions } from '../outcome/conditions.ts'

interface SessionSettings {
  readonly replicas?: number | undefined
  readonly sessionStorage?: { readonly provider: 'memory' | 'redis' } | undefined
  readonly sessionAffinity: 'ClientIP' | 'None'
}

/** Warns if several pods keep sessions in memory: a client then works only if it stays with one pod. */
export function warnOfSessions(settings: SessionSettings, conditions: Conditions): void {
  const { replicas = 1, sessionStorage, sessionAffinity } = settings
  if (replicas <= 1 || sessionStorage?.provider === 'redis') return
  const affinity =
    sessionAffinity === 'ClientIP'
      ? 'the Service keeps each client address on one pod'
      : 'sessionAffinity is None, so sessions will be lost'
  const message = `each of ${replicas} replicas keeps its sessions in its own memory; ${affinity}`
  conditions.set('SessionStorageWarning', 'True', 'MemorySessions', message)
}
