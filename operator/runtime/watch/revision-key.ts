import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import { ApiError, type ApiServer } from '../../cluster/kubernetes/api-server.ts'
import type { Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../model/view.ts'

const SECRETS: Resource = { group: '', version: 'v1', plural: 'secrets', kind: 'Secret' }
const BYTES = 32
/** Several replicas may fill the Secret at the same time; the first wins. */
const TRIES = 5

interface KeyOptions {
  readonly api: ApiServer
  readonly place: { readonly namespace: string; readonly name: string }
  readonly log: Logger
}

/** Reads the key that makes revisions of values. Returns undefined if it isn't available. */
export type ReadRevisionKey = () => Promise<Buffer | undefined>

/**
 * Makes the function that reads the key of an installation once; after a failure the next call tries again. Its first
 * reader fills the Secret, so that revisions survive a restart.
 */
export function revisionKeyIn(options: KeyOptions): ReadRevisionKey {
  let reading: Promise<Buffer | undefined> | undefined
  return () => {
    reading ??= readKey(options).catch((error) => {
      reading = undefined
      throw error
    })
    return reading
  }
}

const has = (error: unknown, ...statuses: readonly number[]): boolean =>
  error instanceof ApiError && statuses.includes(error.status)

async function readKey({ api, place: { namespace, name }, log }: KeyOptions): Promise<Buffer | undefined> {
  try {
    for (let tries = 0; tries < TRIES; tries++) {
      const { data, metadata } = await api.get<KubernetesObject & { readonly data?: { readonly key?: string } }>(
        SECRETS,
        namespace,
        name,
      )
      const key = Buffer.from(data?.key ?? '', 'base64')
      if (key.length >= BYTES) return key
      await fill(api, { ...metadata, namespace })
    }
    throw new Error(`Secret ${namespace}/${name} is changed repeatedly`)
  } catch (error) {
    if (!has(error, 403, 404)) throw error
    log.warn(
      { secret: `${namespace}/${name}`, error: String(error) },
      'the Secret with the operator’s key is missing: pods are rolled at every change of a Secret that they use',
    )
    return undefined
  }
}

async function fill(api: ApiServer, { namespace, name, resourceVersion }: KubernetesObject['metadata']): Promise<void> {
  const data = { key: randomBytes(BYTES).toString('base64') }
  try {
    await api.mergePatch(SECRETS, namespace ?? '', name, { metadata: { resourceVersion }, data })
  } catch (error) {
    if (!has(error, 409)) throw error
  }
}
