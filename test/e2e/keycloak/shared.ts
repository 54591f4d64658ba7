/**
 * One Keycloak for the test files that are loaded into this process one behind the other: the first starts it, the last ends
 * it. It answers at every address of the node, and names its issuer by the one that it is asked at.
 */
import * as assert from 'uvu/assert'
import { type Keycloak, startKeycloak } from '../../support/identity/keycloak.ts'
import type { UserAgent } from '../../support/identity/user-agent.ts'

export const AUDIENCE = 'https://mcp.example'
/** Of the node; pods reach what listens there. */
export const HOST = '10.250.0.1'

interface SharedKeycloak {
  /** With its issuer at 127.0.0.1. */
  start(): Promise<Keycloak>
  close(): Promise<void>
}

const allowed = ['https://gateway.example/oauth/callback']
let users = 0
let started: Promise<Keycloak> | undefined

/** A share for one test file, which says where users may be sent back to. */
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

/** Does what a person does at Keycloak's page, which was shown `at` an address; gives its answer. */
export async function signIn(
  { user }: Keycloak,
  agent: UserAgent,
  { at, page, password = user.password }: { at: string; page: string; password?: string },
): Promise<Response> {
  const action = /<form[^>]*id="kc-form-login"[^>]*action="([^"]+)"/s.exec(page)?.[1]?.replaceAll('&amp;', '&')
  assert.ok(action, `a login form at ${at}:\n${page.slice(0, 2000)}`)
  return agent.post(new URL(action, at).href, { username: user.name, password, credentialId: '' })
}

/** Follows an address to Keycloak's page and signs in; gives the address to which that sends the browser. */
export async function signInAt(keycloak: Keycloak, agent: UserAgent, from: string): Promise<string> {
  const { url: at, response } = await agent.follow(from, () => false)
  const answered = await signIn(keycloak, agent, { at, page: (await response?.text()) ?? '' })
  const back = answered.headers.get('location')
  assert.ok(back, `${answered.status} ${await answered.text()}`)
  return back
}
