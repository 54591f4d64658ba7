/**
 * One Keycloak for the test files that are loaded into this process one behind the other: the first starts it, the last ends
 * it. It answers at every address of the node, and names its issuer by the one that it is asked at.
 */
import { type Keycloak, startKeycloak } from '../../support/identity/keycloak.ts'

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
