import { Agent, type Dispatcher } from 'undici'
import { secretFile } from '../../../config/secret-file.ts'
import { guardedConnect } from '../../../net/connect.ts'
import type { LocationOf } from '../format/source.ts'
import { SourceError } from '../format/source-error.ts'

/** The kinds whose objects may ask to be listed. For equal names the first kind counts. */
export const EXPORTED_KINDS = [
  { kind: 'VirtualMCPServer', plural: 'virtualmcpservers' },
  { kind: 'MCPServer', plural: 'mcpservers' },
  { kind: 'MCPRemoteProxy', plural: 'mcpremoteproxies' },
  { kind: 'MCPServerEntry', plural: 'mcpserverentries' },
] as const

const VERSION = 'v1beta1'

/** The part of the Kubernetes API that a source needs: GETs of the exported kinds in one namespace. */
export interface Cluster extends AsyncDisposable {
  /** Returns a response of status 200; undefined if the API server has no such kind. Throws a SourceError. */
  get(
    plural: string,
    namespace: string,
    query: Readonly<Record<string, string>>,
    options: { readonly signal: AbortSignal; readonly idleMs: number },
  ): Promise<Dispatcher.ResponseData['body'] | undefined>
}

/** Opens the cluster's API with the pod's own token, which is read again as it rotates, and trusts the cluster's CA. */
export function openCluster({ server, tokenFile, caFile, group }: LocationOf<'kubernetes'>): Cluster {
  const agent = new Agent({ connect: guardedConnect({ allowPrivateIP: true, caBundleFile: caFile }), pipelining: 1 })
  const { origin } = new URL(server)
  const readToken = secretFile(tokenFile)

  return {
    async get(plural, namespace, query, { signal, idleMs }) {
      try {
        const { statusCode, body } = await agent.request({
          origin,
          path: `/apis/${group}/${VERSION}/namespaces/${encodeURIComponent(namespace)}/${plural}?${new URLSearchParams(query)}`,
          method: 'GET',
          headers: { authorization: `Bearer ${readToken()}`, accept: 'application/json' },
          signal,
          headersTimeout: 30_000,
          bodyTimeout: idleMs,
        })
        if (statusCode === 200) return body
        await body.dump()
        if (statusCode === 404) return undefined
        throw refusal(statusCode, plural, namespace)
      } catch (error) {
        throw signal.aborted ? signal.reason : buildFailure(error as Error & { code?: string })
      }
    },
    [Symbol.asyncDispose]: () => agent.destroy(),
  }
}

function refusal(status: number, plural: string, namespace: string): SourceError {
  const what = `${plural} in namespace ${namespace}`
  if (status === 401) return new SourceError('forbidden', 'the API server does not accept our token (401)')
  if (status === 403)
    return new SourceError('forbidden', `the service account may not list and watch ${what} (403); a Role is missing`)
  if (status === 410) return new SourceError('upstream_failed', `the watch on ${what} is too far behind (410)`)
  return new SourceError('upstream_failed', `the API server answers ${status} for ${what}`)
}

function buildFailure(error: Error & { code?: string }): SourceError {
  if (error instanceof SourceError) return error
  if (error.message.startsWith('the file ')) return new SourceError('file_unreadable', error.message)
  return new SourceError('unreachable', `the API server can’t be reached (${error.code ?? error.name})`, {
    cause: error,
  })
}
