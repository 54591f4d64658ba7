import { ROLE_CLAIM } from '../../../crds/settings/gateway/defaults.ts'
import type { CredentialBlock, CredentialConfig } from '../credential.ts'
import type { Finding, Findings } from '../load.ts'
import { matcherFindings } from './claim-matcher.ts'
import { addressFindings, isLoopback, plainHttpFindings, urlFindings } from './url.ts'

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
  findings?(block: CredentialBlock<T>, at: string): Iterable<Finding>
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
export const blockFindings = (type: CredentialType, block: object, at: string): readonly Finding[] => [
  ...(rulesOf(type).findings?.(block as never, at) ?? []),
]

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
export function* tokenClientFindings(
  client: TokenClient,
  at: string,
  fields: TokenClientFields = EXCHANGE_FIELDS,
): Findings {
  const { tokenUrl, clientId, clientSecretFile, clientSecretRef, allowPrivateIP, insecureAllowHTTP } = client
  const pointer = `${at}/${fields.url}`
  const url = URL.parse(tokenUrl)
  const called = { allowPrivateIP, allowLoopback: url !== null && isLoopback(url), allowedBy: fields.private }
  yield* urlFindings(tokenUrl, pointer)
  yield* addressFindings(tokenUrl, pointer, called)
  yield* plainHttpFindings(url, pointer, insecureAllowHTTP, fields.insecure ?? '')
  if ((clientSecretFile ?? clientSecretRef) !== undefined && clientId === undefined)
    yield { pointer: `${at}/${fields.client}`, message: 'is required with a client secret' }
}

type AwsSts = CredentialBlock<'awsSts'>

function* awsStsFindings({ stsUrl, fallbackRoleArn, roleMappings = [] }: AwsSts, at: string): Findings {
  if (stsUrl !== undefined) yield* tokenClientFindings({ tokenUrl: stsUrl }, at, { url: 'stsUrl', client: '' })
  if (fallbackRoleArn === undefined && roleMappings.length === 0)
    yield { pointer: at, message: 'needs fallbackRoleArn, roleMappings or both' }
  for (const [index, { claim, matcher }] of roleMappings.entries()) {
    const pointer = `${at}/roleMappings/${index}`
    if ((claim === undefined) === (matcher === undefined))
      yield { pointer, message: 'must have exactly one of claim and matcher' }
    else yield* matcherFindings(matcher, `${pointer}/matcher`)
  }
}

/** The block in a file, or in a manifest, where references name the secrets. */
type CrossAppAccess = CredentialBlock<'xaa'> & {
  readonly idpClientSecretRef?: unknown
  readonly targetClientSecretRef?: unknown
}

/** Checks the two token endpoints of cross-app access. The identity provider's endpoint is never plain http. */
function* xaaFindings(xaa: CrossAppAccess, at: string): Findings {
  for (const end of ['idp', 'target'] as const)
    yield* tokenClientFindings(
      {
        tokenUrl: xaa[`${end}TokenUrl`],
        clientId: xaa[`${end}ClientId`],
        clientSecretFile: xaa[`${end}ClientSecretFile`] ?? xaa[`${end}ClientSecretRef`],
        insecureAllowHTTP: end === 'target' && xaa.insecureTargetTokenUrl,
      },
      at,
      {
        url: `${end}TokenUrl`,
        client: `${end}ClientId`,
        ...(end === 'target' && { insecure: 'insecureTargetTokenUrl' }),
      },
    )
}

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
