/**
 * Test files that are loaded into one process share one Keycloak: the first file starts it and the last ends it. It
 * listens at every address of the node, and its issuer has the address of the request.
 */
import * as assert from 'uvu/assert'
import { type Keycloak, startKeycloak } from '../../support/identity/keycloak.ts'
import type { UserAgent } from '../../support/identity/user-agent.ts'

export const AUDIENCE = 'https://mcp.example'
/** The node's address, at which pods reach it. */
export const HOST = '10.250.0.1'

interface SharedKeycloak {
  /** Keycloak with its issuer at 127.0.0.1. */
  start(): Promise<Keycloak>
  close(): Promise<void>
}

const allowed = ['https://gateway.example/oauth/callback']
let users = 0
let started: Promise<Keycloak> | undefined

/** Registers a test file as a user of the shared Keycloak, with its redirect URIs. */
export function shareKeycloak(redirectUris: readonly string[] = []): SharedKeycloak {
  users += 1
  allowed.push(...redirectUris)
  return {
    start() {
      started ??= startKeycloak(AUDIENCE, { host: '0.0.0.0', redirectUris: allowed })
      return started
    },
    async close() {
      users -= 1
      if (users === 0) await started?.then((keycloak) => keycloak.close())
    },
  }
}

/** Fills in Keycloak's page, which was shown `at` an address, and returns the answer. */
export async function signIn(
  { user }: Keycloak,
  agent: UserAgent,
  { at, page, password = user.password }: { at: string; page: string; password?: string },
): Promise<Response> {
  const action = /<form[^>]*id="kc-form-login"[^>]*action="([^"]+)"/s.exec(page)?.[1]?.replaceAll('&amp;', '&')
  assert.ok(action, `a login form at ${at}:\n${page.slice(0, 2000)}`)
  return agent.post(new URL(action, at).href, { username: user.name, password, credentialId: '' })
}

/** Follows an address to Keycloak's page and signs in. Returns the address to which the browser is sent. */
export async function signInAt(keycloak: Keycloak, agent: UserAgent, from: string): Promise<string> {
  const { url: at, response } = await agent.follow(from, () => false)
  const answered = await signIn(keycloak, agent, { at, page: (await response?.text()) ?? '' })
  const back = answered.headers.get('location')
  assert.ok(back, `${answered.status} ${await answered.text()}`)
  return back
}
