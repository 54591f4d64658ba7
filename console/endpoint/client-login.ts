import { isObject } from '../../crds/settings/json.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { findAuthType } from '../facts/access.ts'
import type { LoginFacts } from '../facts/connect.ts'
import { findIssuers } from '../facts/issuers.ts'
import { registrySettings } from '../facts/registry.ts'
import { readResource } from '../mcp/metadata.ts'
import type { Visit } from './visit.ts'

const isRegistry = ({ kind }: KubernetesObject) => kind === 'MCPRegistry'

/** Tells whether callers of a workload need a token. */
function needsToken(object: KubernetesObject): boolean {
  if (!isRegistry(object)) return findAuthType(object) !== 'anonymous'
  const { auth } = registrySettings(object)
  return isObject(auth) && auth['mode'] === 'oauth'
}

/** Returns the resource and scopes from the workload's configuration, for a workload that can't be asked. */
function configured(object: KubernetesObject): Pick<LoginFacts, 'resource' | 'scopes'> {
  const spec = isRegistry(object) ? registrySettings(object) : object['spec']
  const { incomingAuth, oidcConfigRef, auth } = isObject(spec) ? spec : {}
  const oauth = isObject(auth) ? auth['oauth'] : undefined
  const found = [isObject(incomingAuth) ? incomingAuth['oidcConfigRef'] : undefined, oidcConfigRef, oauth].find(
    isObject,
  )
  const { resourceUrl, scopes } = found ?? {}
  return {
    resource: typeof resourceUrl === 'string' ? resourceUrl : null,
    scopes: Array.isArray(scopes) ? scopes.filter((scope): scope is string => typeof scope === 'string') : [],
  }
}

type Found = Pick<LoginFacts, 'resource' | 'scopes' | 'problem'> & { readonly issuer: string | undefined }

/**
 * Asks the workload for its resource metadata. If the console can't reach it, the configuration gives the same facts.
 */
async function findResource(visit: Visit, object: KubernetesObject): Promise<Found> {
  const { places, session, world } = visit
  const issuers = findIssuers(object, world.objects)
  const base = places.address(session.viewer, object)
  const known = { ...configured(object), issuer: issuers[0], problem: null }
  if (base === undefined) return known
  const path = isRegistry(object) ? '' : '/mcp'
  try {
    const metadataUrl = `${base}/.well-known/oauth-protected-resource${path}`
    return { ...(await readResource({ metadataUrl, issuers })), problem: null }
  } catch (error) {
    return { ...known, problem: said(error) }
  }
}

/** Returns the text of an error, without the advice that helps only a viewer of the console and not a client. */
const said = (error: unknown): string => (error as Error).message.replace(' Paste a token instead.', '')

/** Collects the facts about a client's login at a workload; null if callers need no token. */
export async function loginFacts(visit: Visit, object: KubernetesObject): Promise<LoginFacts | null> {
  if (!needsToken(object)) return null
  const { resource, scopes, issuer, problem } = await findResource(visit, object)
  const nothing = { resource, scopes, issuer: issuer ?? null, host: null, cimd: null, dcr: null }
  if (issuer === undefined) {
    const none = 'Its configuration names no authorization server at which a browser can log in.'
    return { ...nothing, problem: problem ?? none }
  }
  try {
    const metadata = await visit.logins.about(issuer)
    return {
      ...nothing,
      host: URL.parse(metadata.authorization_endpoint ?? '')?.host ?? null,
      cimd: metadata['client_id_metadata_document_supported'] === true,
      dcr: metadata.registration_endpoint !== undefined,
      problem,
    }
  } catch (error) {
    return { ...nothing, problem: said(error) }
  }
}
