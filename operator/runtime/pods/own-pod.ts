import type { Logger } from 'pino'
import { backoffDelay } from '../../../dataplane/retry/backoff.ts'
import { type ApiServer, isNotFound } from '../../cluster/kubernetes/api-server.ts'
import { pause } from '../queue/pause.ts'
import type { Pod } from './observation.ts'
import { PODS } from './read-pod-status.ts'

const WAIT = { first: 250, longest: 10_000 }

/**
 * Reads the pod of this process. Undefined if there is none, or if `stop` comes first. It waits for an API server that
 * is away: if the process ended, Kubernetes would restart it after growing pauses.
 */
export async function readOwnPod(
  api: ApiServer,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  log: Logger,
  stop: AbortSignal,
): Promise<Pod | undefined> {
  let last = ''
  for (let failures = 0; !stop.aborted; failures++) {
    try {
      return await api.get<Pod>(PODS, namespace, name)
    } catch (error) {
      if (isNotFound(error)) return undefined
      const { message } = error as Error
      if (message !== last) log.warn({ err: error, pod: `${namespace}/${name}` }, 'waiting for the API server')
      last = message
    }
    await pause(backoffDelay(failures, WAIT), stop)
  }
  return undefined
}
