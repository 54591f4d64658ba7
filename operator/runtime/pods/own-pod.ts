import type { Logger } from 'pino'
import { backoffDelay } from '../../../dataplane/retry/backoff.ts'
import { type ApiServer, isNotFound } from '../../cluster/kubernetes/api-server.ts'
import { pause } from '../queue/pause.ts'
import type { Pod } from './observation.ts'
import { PODS } from './read-pod-status.ts'

const WAIT = { first: 250, longest: 10_000 }

/**
 * The pod that this process is in; undefined where there is none of that name, or when `stop` has come first. An API server
 * that is away, or has just started and knows no rights yet, is waited for: to end would have Kubernetes start this again
 * after a longer pause each time. What is wrong is logged when it is news.
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
      if (message !== last) log.warn({ err: error, pod: `${namespace}/${name}` }, 'waits for the API server')
      last = message
    }
    await pause(backoffDelay(failures, WAIT), stop)
  }
  return undefined
}
