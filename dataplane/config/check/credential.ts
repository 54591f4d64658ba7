import { ROLE_CLAIM } from '../../../crds/settings/gateway/defaults.ts'
import type { CredentialConfig } from '../credential.ts'
import type { Finding } from '../load.ts'
import { compileClaimMatcher } from './claim-matcher.ts'
import { addressFindings, isLoopback, urlFindings } from './url.ts'

export function credentialFindings(credential: CredentialConfig, at: string): readonly Finding[] {
  const blocks = ['tokenExchange', 'upstreamInject', 'xaa', 'awsSts', 'forwarded'] as const
  const { type, tokenExchange, xaa, awsSts } = credential
  return [
    ...blocks
      .filter((block) => (block === type) !== (credential[block] !== undefined))
      .map((block) => ({ pointer: `${at}/${block}`, message: `must be set when type is ${block}, and only then` })),
    ...(tokenExchange === undefined ? [] : tokenClientFindings(tokenExchange, `${at}/tokenExchange`)),
    ...(xaa === undefined ? [] : xaaFindings(xaa, `${at}/xaa`)),
    ...(awsSts === undefined
      ? []
      : [...awsStsFindings(awsSts, `${at}/awsSts`), ...roleClaimFindings(awsSts, `${at}/awsSts`)]),
  ]
}

function roleClaimFindings({ roleClaim, roleMappings }: AwsSts, at: string): readonly Finding[] {
  return roleClaim === undefined || roleClaim === ROLE_CLAIM || choosesByClaim(roleMappings)
    ? []
    : [{ pointer: `${at}/roleClaim`, message: 'has no effect: no entry of roleMappings has a claim' }]
}

/** Tells whether a value of the role claim chooses a role. */
export const choosesByClaim = (roleMappings: AwsSts['roleMappings'] = []): boolean =>
  roleMappings.some(({ claim }) => claim !== undefined)

/** Returns the names of the headers that carry a credential, with the pointers of the fields that name them. */
export function credentialHeaders({ tokenExchange, forwarded }: CredentialConfig, at: string) {
  const own = tokenExchange?.headerName
  return [
    ...(own === undefined ? [] : [{ name: own, pointer: `${at}/tokenExchange/headerName` }]),
    ...(forwarded?.headerNames ?? []).map((name, index) => ({
      name,
      pointer: `${at}/forwarded/headerNames/${index}`,
      // A request without this header gets the configured one.
      mayReplace: true,
    })),
  ]
}

interface TokenClient {
  readonly tokenUrl: string
  readonly clientId?: string | undefined
  readonly clientSecretFile?: unknown
  readonly clientSecretRef?: unknown
  readonly allowPrivateIP?: boolean | undefined
  readonly insecureAllowHTTP?: boolean | undefined
}

interface TokenClientFields {
  readonly url: string
  readonly client: string
  readonly insecure?: string
  readonly private?: string
}

const EXCHANGE_FIELDS = {
  url: 'tokenUrl',
  client: 'clientId',
  insecure: 'insecureAllowHTTP',
  private: 'allowPrivateIP',
}

/**
 * Checks a token endpoint, which gets callers' tokens and the secret: https, loopback, or plain http by choice. A
 * secret needs a client.
 */
export function tokenClientFindings(
  client: TokenClient,
  at: string,
  fields: TokenClientFields = EXCHANGE_FIELDS,
): readonly Finding[] {
  const { tokenUrl, clientId, clientSecretFile, clientSecretRef, allowPrivateIP, insecureAllowHTTP } = client
  const pointer = `${at}/${fields.url}`
  const url = URL.parse(tokenUrl)
  const isSecure = url === null || url.protocol === 'https:' || isLoopback(url) || insecureAllowHTTP === true
  const called = { allowPrivateIP, allowLoopback: url !== null && isLoopback(url), allowedBy: fields.private }
  const choice = fields.insecure === undefined ? '' : `, or needs ${fields.insecure}: true`
  return [
    ...urlFindings(tokenUrl, pointer),
    ...addressFindings(tokenUrl, pointer, called),
    ...(isSecure ? [] : [{ pointer, message: `must be https; plain http is for loopback${choice}` }]),
    ...((clientSecretFile ?? clientSecretRef) !== undefined && clientId === undefined
      ? [{ pointer: `${at}/${fields.client}`, message: 'is required with a client secret' }]
      : []),
  ]
}

interface AwsSts {
  readonly stsUrl?: string | undefined
  readonly roleClaim?: string | undefined
  readonly fallbackRoleArn?: string | undefined
  readonly roleMappings?: readonly { readonly claim?: string; readonly matcher?: string }[] | undefined
}

export const awsStsFindings = (
  { stsUrl, fallbackRoleArn, roleMappings = [] }: AwsSts,
  at: string,
): readonly Finding[] => [
  ...(stsUrl === undefined ? [] : tokenClientFindings({ tokenUrl: stsUrl }, at, { url: 'stsUrl', client: '' })),
  ...(fallbackRoleArn === undefined && roleMappings.length === 0
    ? [{ pointer: at, message: 'needs fallbackRoleArn, roleMappings or both' }]
    : []),
  ...roleMappings.flatMap(({ claim, matcher }, index) => {
    const pointer = `${at}/roleMappings/${index}`
    if ((claim === undefined) === (matcher === undefined))
      return [{ pointer, message: 'must have exactly one of claim and matcher' }]
    return matcher === undefined ? [] : matcherFindings(matcher, `${pointer}/matcher`)
  }),
]

function matcherFindings(matcher: string, pointer: string): readonly Finding[] {
  try {
    compileClaimMatcher(matcher)
    return []
  } catch (error) {
    return [{ pointer, message: `can’t be used: ${(error as Error).message}` }]
  }
}

interface CrossAppAccess {
  readonly idpTokenUrl: string
  readonly idpClientId?: string | undefined
  readonly idpClientSecretFile?: unknown
  readonly idpClientSecretRef?: unknown
  readonly targetTokenUrl: string
  readonly targetClientId?: string | undefined
  readonly targetClientSecretFile?: unknown
  readonly targetClientSecretRef?: unknown
  readonly insecureTargetTokenUrl?: boolean | undefined
}

/** Checks the two token endpoints of cross-app access. The identity provider's endpoint is never plain http. */
export const xaaFindings = (xaa: CrossAppAccess, at: string): readonly Finding[] => [
  ...tokenClientFindings(
    {
      tokenUrl: xaa.idpTokenUrl,
      clientId: xaa.idpClientId,
      clientSecretFile: xaa.idpClientSecretFile ?? xaa.idpClientSecretRef,
    },
    at,
    { url: 'idpTokenUrl', client: 'idpClientId' },
  ),
  ...tokenClientFindings(
    {
      tokenUrl: xaa.targetTokenUrl,
      clientId: xaa.targetClientId,
      clientSecretFile: xaa.targetClientSecretFile ?? xaa.targetClientSecretRef,
      insecureAllowHTTP: xaa.insecureTargetTokenUrl,
    },
    at,
    { url: 'targetTokenUrl', client: 'targetClientId', insecure: 'insecureTargetTokenUrl' },
  ),
]
