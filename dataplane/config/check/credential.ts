import { ROLE_CLAIM } from '../../../crds/settings/gateway/defaults.ts'
import type { CredentialBlock, CredentialConfig } from '../credential.ts'
import type { Finding } from '../load.ts'
import { compileClaimMatcher } from './claim-matcher.ts'
import { addressFindings, isLoopback, urlFindings } from './url.ts'

type CredentialType = CredentialConfig['type']

interface SentHeader {
  readonly name: string
  /** The field of the block that names it. */
  readonly field?: string
  /** A request without this header gets the configured one. */
  readonly mayReplace?: true
}

interface TypeRules<T extends CredentialType> {
  /** Finds what breaks rules across fields of the block, which may be that of a manifest or of a file. */
  findings?(block: CredentialBlock<T>, at: string): readonly Finding[]
  /** Returns the headers that carry the credential; undefined if it is Authorization alone. */
  headers?(block: CredentialBlock<T>): readonly SentHeader[] | undefined
}

const AUTHORIZATION: SentHeader = { name: 'Authorization' }

const rulesOf = (type: CredentialType) => types[type] as TypeRules<never>

/** Returns the blocks that are set, also those of another type. */
const blocksOf = (credential: CredentialConfig) =>
  typeNames.flatMap((type) => {
    const block = credential[type]
    return block === undefined ? [] : [{ type, block: block as never }]
  })

export function credentialFindings(credential: CredentialConfig, at: string): readonly Finding[] {
  const { type, awsSts } = credential
  return [
    ...typeNames
      .filter((block) => (block === type) !== (credential[block] !== undefined))
      .map((block) => ({ pointer: `${at}/${block}`, message: `must be set when type is ${block}, and only then` })),
    ...blocksOf(credential).flatMap((set) => blockFindings(set.type, set.block, `${at}/${set.type}`)),
    ...(awsSts === undefined ? [] : roleClaimFindings(awsSts, `${at}/awsSts`)),
  ]
}

/** Finds what breaks rules across the fields of a type's block, in a file or in a manifest (with references). */
export const blockFindings = (type: CredentialType, block: object, at: string): readonly Finding[] =>
  rulesOf(type).findings?.(block as never, at) ?? []

function roleClaimFindings({ roleClaim, roleMappings }: AwsSts, at: string): readonly Finding[] {
  return roleClaim === undefined || roleClaim === ROLE_CLAIM || choosesByClaim(roleMappings)
    ? []
    : [{ pointer: `${at}/roleClaim`, message: 'has no effect: no entry of roleMappings has a claim' }]
}

/** Tells whether a value of the role claim chooses a role. */
export const choosesByClaim = (roleMappings: AwsSts['roleMappings'] = []): boolean =>
  roleMappings.some(({ claim }) => claim !== undefined)

/** Returns the headers that carry a credential and that the configuration names, with the pointers of those fields. */
export const credentialHeaders = (credential: CredentialConfig, at: string) =>
  blocksOf(credential).flatMap(({ type, block }) =>
    (rulesOf(type).headers?.(block) ?? []).flatMap(({ field, ...header }) =>
      field === undefined ? [] : [{ ...header, pointer: `${at}/${type}/${field}` }],
    ),
  )

/** Returns the names of all headers that carry a credential. */
export const sentHeaders = (credential: CredentialConfig): readonly string[] =>
  blocksOf(credential).flatMap(({ type, block }) =>
    (rulesOf(type).headers?.(block) ?? [AUTHORIZATION]).map(({ name }) => name),
  )

/**
 * Returns the upstream providers that a credential names, with the fields. `isSent`: the credential is what the provider
 * or the user gave; otherwise it is exchanged for a token of the provider.
 */
export const namedProviders = (credential: CredentialConfig) =>
  blocksOf(credential).flatMap(({ type, block }) =>
    (['providerName', 'subjectProviderName'] as const).flatMap((field) => {
      const name = (block as Readonly<Partial<Record<typeof field, string>>>)[field]
      return name === undefined ? [] : [{ name, field: `${type}/${field}`, isSent: field === 'providerName' }]
    }),
  )

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

const awsStsFindings = ({ stsUrl, fallbackRoleArn, roleMappings = [] }: AwsSts, at: string): readonly Finding[] => [
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
const xaaFindings = (xaa: CrossAppAccess, at: string): readonly Finding[] => [
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

/** The rules of each type that its schema can't express. */
const types: { readonly [T in CredentialType]: TypeRules<T> } = {
  tokenExchange: {
    findings: tokenClientFindings,
    headers: ({ headerName: name }) => (name === undefined ? undefined : [{ name, field: 'headerName' }]),
  },
  upstreamInject: {},
  xaa: { findings: xaaFindings },
  awsSts: {
    findings: awsStsFindings,
    // An AWS signature adds the last two.
    headers: () => [AUTHORIZATION, { name: 'X-Amz-Date' }, { name: 'X-Amz-Security-Token' }],
  },
  forwarded: {
    headers: ({ headerNames }) =>
      headerNames.map((name, index) => ({ name, field: `headerNames/${index}`, mayReplace: true })),
  },
}

const typeNames = Object.keys(types) as CredentialType[]
