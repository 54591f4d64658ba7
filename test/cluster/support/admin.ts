import { isDeepStrictEqual } from 'node:util'
import { buildPath, METADATA_ONLY } from '../../../operator/cluster/kubernetes/resource.ts'
import { outputWatch, secret } from '../../secrets/watch.ts'
import type { LiveMetadata, LiveObject } from '../../support/operator/live-object.ts'
import { eventually } from './eventually.ts'
import { resourceNamed } from './resources.ts'
import { waitFor } from './waited-for.ts'

/** Selects objects of a kind by labels, in one namespace (`default` if none is given) or in all. */
export interface Selection {
  readonly namespace?: string
  readonly allNamespaces?: boolean
  /** Labels in the syntax of `kubectl --selector`. */
  readonly labels?: string
}

/**
 * Frequent requests of the cluster's administrator, sent without kubectl, which takes longer to start than the API
 * server to answer. Kinds have the names that kubectl accepts.
 */
export interface Admin {
  /** Returns an object, or undefined if it or its kind does not exist. */
  find(kind: string, name: string, namespace?: string): LiveObject | undefined
  /** Returns an object; throws, as kubectl does, if it does not exist. */
  read(kind: string, name: string, namespace?: string): LiveObject
  exists(kind: string, name: string, namespace?: string): boolean
  /** Lists objects of several kinds, separated by commas; a kind that is not served has none. */
  list(kinds: string, which?: Selection): LiveObject[]
  /** Lists only the metadata: all CRDs together are megabytes. */
  listMetadata(kinds: string, which?: Selection): LiveMetadata[]
  /** Applies objects as `kubectl apply` does, with its annotation. Throws the API server's error. */
  apply(...objects: readonly object[]): void
  /**
   * Applies objects as `kubectl apply --server-side` does, and returns the result. Throws the API server's error, such
   * as a conflict.
   */
  applyOnServer(
    objects: readonly object[],
    options?: {
      readonly manager?: string
      readonly force?: boolean
      readonly dryRun?: boolean
      readonly validation?: 'Strict' | 'Ignore'
    },
  ): LiveObject[]
  /** Returns the API server's error for an object that would be created, or nothing if it would accept the object. */
  readRefusal(object: object): string | undefined
  /** Creates objects; throws if one exists. */
  create(...objects: readonly object[]): void
  mergePatch(kind: string, name: string, patch: object, namespace?: string): void
  /** Patches with another type of patch, or the status. */
  patch(
    kind: string,
    name: string,
    patch: object,
    how: {
      readonly namespace?: string
      readonly type?: keyof typeof PATCHES
      readonly subresource?: 'status' | 'scale'
    },
  ): void
  /** Tells whether a ServiceAccount may use a verb on a kind, or on one named object of it, in a namespace. */
  may(
    account: Account,
    verb: string,
    kind: string,
    where?: { readonly namespace?: string; readonly name?: string; readonly subresource?: string },
  ): boolean
  /** Deletes an object, if it exists, without waiting until it is gone. */
  remove(kind: string, name: string, namespace?: string): void
  /** Deletes a pod without grace period; a pod on a node that does not exist would stay for a minute. */
  removeAtOnce(kind: string, name: string, namespace?: string): void
  /** Deletes an object without the objects that it owns. */
  orphan(kind: string, name: string, namespace?: string): void
  /** Deletes objects of a kind and waits until they are gone, as `kubectl delete` does. */
  removeAndWait(kind: string, names: readonly string[], namespace?: string): Promise<void>
  /** Returns a token of a ServiceAccount, by default for the API server and two hours. */
  token(name: string, namespace: string, options?: { readonly audience?: string; readonly seconds?: number }): string
  /** Tells whether the API server serves these resources (plurals) of a group. */
  serves(group: string, version: string, plurals: readonly string[]): boolean
  /** Tells whether the API server is ready; false if it does not answer. */
  isReady(): boolean
}

/** The API server's name of a ServiceAccount: `system:serviceaccount:NAMESPACE:NAME`. */
export type Account = `system:serviceaccount:${string}:${string}`

interface Named {
  readonly apiVersion?: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
}

type Fields = Readonly<Record<string, unknown>>

const PATCHES = {
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  json: 'application/json-patch+json',
} as const
const MERGE_PATCH = { contentType: PATCHES.merge }
const SERVER_SIDE = { contentType: 'application/apply-patch+yaml' }
const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration'
const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function withAnnotation(object: object): Fields {
  const text = JSON.stringify(object)
  const copy = JSON.parse(text) as Fields & { readonly metadata: { readonly annotations?: Fields } }
  const annotations = { ...copy.metadata.annotations, [LAST_APPLIED]: text }
  return { ...copy, metadata: { ...copy.metadata, annotations } }
}

/**
 * Returns the merge patch (RFC 7386) from the live to the desired object. Fields that are no longer applied are
 * removed.
 */
function changes(last: Fields, wanted: Fields, live: Fields): Fields {
  const gone = Object.keys(last).filter((key) => wanted[key] === undefined && live[key] !== undefined)
  const patch: Record<string, unknown> = Object.fromEntries(gone.map((key) => [key, null]))
  for (const [key, value] of Object.entries(wanted)) {
    const there = live[key]
    if (!isFields(value) || !isFields(there)) {
      if (!isDeepStrictEqual(value, there)) patch[key] = value
      continue
    }
    const before = last[key]
    const inner = changes(isFields(before) ? before : {}, value, there)
    if (Object.keys(inner).length > 0) patch[key] = inner
  }
  return patch
}

export function createAdmin(server: string, token: string): Admin {
  // Answers are searched for leaked secrets, like kubectl's output.
  const watch = outputWatch('kubectl-stdout')
  const request = (
    method: string,
    path: string,
    body?: object,
    { contentType = 'application/json', accept = 'application/json', watched = true } = {},
  ) => {
    const headers = {
      authorization: `Bearer ${token}`,
      accept,
      ...(body === undefined ? {} : { 'content-type': contentType }),
    }
    const answer = waitFor({
      method,
      url: server + path,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    if (watched) watch(answer.text)
    return answer
  }
  const parseSuccess = ({ status, text }: { readonly status: number; readonly text: string }) => {
    if (status >= 200 && status < 300) return JSON.parse(text)
    let answer: { message?: string } = {}
    try {
      answer = JSON.parse(text)
    } catch {
      // Not every error body is a Status.
    }
    throw new Error(answer.message ?? `${status} ${text}`)
  }
  const pathTo = (kind: string, namespace: string | undefined, name?: string) => {
    const resource = resourceNamed(kind)
    return buildPath(resource, resource.isClusters ? undefined : namespace, name)
  }

  const find: Admin['find'] = (kind, name, namespace = 'default') => {
    const answer = request('GET', pathTo(kind, namespace, name))
    return answer.status === 404 ? undefined : parseSuccess(answer)
  }
  /** Lists objects of several kinds and adds their kind, which lists leave out. */
  const listAs = (accept: string, kinds: string, which: Selection = {}): LiveObject[] => {
    const { namespace = 'default', allNamespaces = false, labels } = which
    const query = labels === undefined ? '' : `?labelSelector=${encodeURIComponent(labels)}`
    return kinds.split(',').flatMap((kind) => {
      const path = pathTo(kind, allNamespaces ? undefined : namespace)
      const answer = request('GET', path + query, undefined, { accept })
      if (answer.status === 404) return []
      const { kind: ofItems } = resourceNamed(kind)
      // An empty list of metadata is null.
      return ((parseSuccess(answer).items ?? []) as LiveObject[]).map((item) => ({ ...item, kind: ofItems }))
    })
  }
  const remove = (kind: string, name: string, namespace = 'default', how: object) => {
    const answer = request('DELETE', pathTo(kind, namespace, name), { propagationPolicy: 'Background', ...how })
    if (answer.status !== 404) parseSuccess(answer)
  }
  return {
    find,
    read: (kind, name, namespace = 'default') => parseSuccess(request('GET', pathTo(kind, namespace, name))),
    exists(kind, name, namespace = 'default') {
      const answer = request('GET', pathTo(kind, namespace, name), undefined, { accept: METADATA_ONLY.object })
      return answer.status !== 404 && parseSuccess(answer) !== undefined
    },
    list: (...args) => listAs('application/json', ...args),
    listMetadata: (...args) => listAs(METADATA_ONLY.list, ...args).map(({ metadata }) => metadata),
    apply(...objects) {
      for (const object of objects) {
        const { kind, metadata } = object as Named
        const query = '?fieldManager=kubectl-client-side-apply&fieldValidation=Strict'
        const annotated = withAnnotation(object)
        const live = find(kind, metadata.name, metadata.namespace)
        if (live === undefined) {
          parseSuccess(request('POST', pathTo(kind, metadata.namespace ?? 'default') + query, annotated))
          continue
        }
        const last = JSON.parse(live.metadata.annotations?.[LAST_APPLIED] ?? '{}') as Fields
        const patch = changes(last, annotated, live)
        if (Object.keys(patch).length === 0) continue
        const path = pathTo(kind, metadata.namespace ?? 'default', metadata.name)
        parseSuccess(request('PATCH', path + query, patch, MERGE_PATCH))
      }
    },
    applyOnServer(objects, { manager = 'kubectl', force = false, dryRun = false, validation = 'Strict' } = {}) {
      const query = `?fieldManager=${manager}&force=${force}&fieldValidation=${validation}${dryRun ? '&dryRun=All' : ''}`
      return objects.map((object) => {
        const { kind, metadata } = object as Named
        const path = pathTo(kind, metadata.namespace ?? 'default', metadata.name)
        return parseSuccess(request('PATCH', path + query, object, SERVER_SIDE))
      })
    },
    readRefusal(object) {
      const { kind, metadata } = object as Named
      const path = pathTo(kind, metadata.namespace ?? 'default')
      const { status, text } = request('POST', `${path}?dryRun=All&fieldValidation=Strict`, object)
      return status < 300 ? undefined : (JSON.parse(text) as { message: string }).message
    },
    create(...objects) {
      for (const object of objects) {
        const { kind, metadata } = object as Named
        const query = '?fieldManager=kubectl-create&fieldValidation=Strict'
        parseSuccess(request('POST', pathTo(kind, metadata.namespace ?? 'default') + query, object))
      }
    },
    patch(kind, name, patch, { namespace = 'default', type = 'merge', subresource }) {
      const path = pathTo(kind, namespace, name) + (subresource === undefined ? '' : `/${subresource}`)
      parseSuccess(request('PATCH', path, patch, { contentType: PATCHES[type] }))
    },
    mergePatch(kind, name, patch, namespace = 'default') {
      parseSuccess(request('PATCH', pathTo(kind, namespace, name), patch, MERGE_PATCH))
    },
    may(account, verb, kind, { namespace = 'default', name, subresource } = {}) {
      const { group, plural: resource } = resourceNamed(kind)
      const groups = [
        'system:serviceaccounts',
        `system:serviceaccounts:${account.split(':')[2]}`,
        'system:authenticated',
      ]
      const resourceAttributes = { namespace, verb, group, resource, name, subresource }
      const review = { spec: { user: account, groups, resourceAttributes } }
      const path = '/apis/authorization.k8s.io/v1/subjectaccessreviews'
      return parseSuccess(request('POST', path, review)).status.allowed === true
    },
    remove: (kind, name, namespace) => remove(kind, name, namespace, {}),
    removeAtOnce: (kind, name, namespace) => remove(kind, name, namespace, { gracePeriodSeconds: 0 }),
    orphan: (kind, name, namespace) => remove(kind, name, namespace, { propagationPolicy: 'Orphan' }),
    async removeAndWait(kind, names, namespace = 'default') {
      const uids = names.map((name) => find(kind, name, namespace)?.metadata.uid)
      for (const name of names) remove(kind, name, namespace, {})
      const listRemaining = () =>
        names.filter((name, at) => uids[at] && find(kind, name, namespace)?.metadata.uid === uids[at])
      await eventually(() => listRemaining().length === 0, `${kind} ${names.join(' ')} is deleted`)
    },
    token(name, namespace, { audience, seconds = 7_200 } = {}) {
      const path = `${pathTo('serviceaccount', namespace, name)}/token`
      const spec = { expirationSeconds: seconds, audiences: audience === undefined ? undefined : [audience] }
      const token: string = parseSuccess(request('POST', path, { spec }, { watched: false })).status.token
      secret(token)
      return token
    },
    serves(group, version, plurals) {
      const answer = request('GET', `/apis/${group}/${version}`)
      if (answer.status === 404) return false
      const served = (parseSuccess(answer).resources as { name: string }[]).map(({ name }) => name)
      return plurals.every((plural) => served.includes(plural))
    },
    isReady() {
      try {
        return request('GET', '/readyz').text === 'ok'
      } catch {
        return false
      }
    },
  }
}
