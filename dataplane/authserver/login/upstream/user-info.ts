import type { UserInfoConfig } from '../../../config/auth-server.ts'
import { firstAt, type Identity, identityIn, shownIn, subjectFrom } from './identity.ts'
import { statusFault, toFault } from './provider-fault.ts'
import { objectIn, ProviderResponse, providerFetch, type Reach, UnusableAnswer } from './provider-fetch.ts'

/** Asks a provider for the user of an access token. */
interface UserInfo {
  /** Returns the user's identity. Rejects with an Error for the log that holds nothing of the request or answer. */
  ask(accessToken: string): Promise<Identity>
  /** Returns the claims to show for a known user. The answer may omit the user's name but not name a different user. */
  confirm(accessToken: string, names: readonly unknown[]): Promise<Omit<Identity, 'subject'>>
  close(): Promise<void>
}

const orUsual = (fields: readonly string[] | undefined, usual: string): readonly string[] =>
  fields === undefined || fields.length === 0 ? [usual] : fields

export function createUserInfo(config: UserInfoConfig, reach: Reach, directory: string): UserInfo {
  const { endpointUrl, httpMethod = 'GET', additionalHeaders = {}, fieldMapping = {} } = config
  const fetch = providerFetch(endpointUrl, reach, directory)
  const paths = {
    subject: orUsual(fieldMapping.subjectFields, 'sub'),
    name: orUsual(fieldMapping.nameFields, 'name'),
    email: orUsual(fieldMapping.emailFields, 'email'),
  }
  const headers = {
    // GitHub refuses requests without a user agent.
    'user-agent': 'portico',
    ...Object.fromEntries(Object.entries(additionalHeaders).map(([name, value]) => [name.toLowerCase(), value])),
  }
  async function get(accessToken: string): Promise<Readonly<Record<string, unknown>>> {
    const own = { ...headers, authorization: `Bearer ${accessToken}` }
    const { status, text } = await fetch(endpointUrl, own, httpMethod.toUpperCase() === 'POST' ? '' : undefined)
    if (status < 200 || status > 299)
      throw statusFault('user_info', new ProviderResponse(text, status, {}, { secrets: [accessToken] }))
    return objectIn(text, 'the userinfo endpoint of the provider answered with something other than a JSON object')
  }

  /** Reads an answer. An error while reading is a fault of this endpoint. */
  async function reading<T>(accessToken: string, read: (document: Readonly<Record<string, unknown>>) => T): Promise<T> {
    try {
      return read(await get(accessToken))
    } catch (error) {
      throw toFault(error, 'user_info')
    }
  }

  return {
    ask: (accessToken) => reading(accessToken, (document) => identityIn(document, paths)),
    confirm: (accessToken, names) =>
      reading(accessToken, (document) => {
        const named = firstAt(document, paths.subject)
        if (named !== undefined && !names.includes(subjectFrom(named)))
          throw new UnusableAnswer('the userinfo endpoint of the provider named another user')
        return shownIn(document, paths)
      }),
    close: () => fetch.close(),
  }
}
