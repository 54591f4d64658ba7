/** Ports on which a data plane listens in its pod. */
export interface Listeners {
  readonly listen: number
  readonly admin: number
}

/** The ports in a pod of its own. */
export const gatewayListeners: Listeners = { listen: 4483, admin: 8081 }
export const registryListeners: Listeners = { listen: 8080, admin: 8081 }
/** The ports beside a user's container, chosen to avoid the usual ports. */
export const sidecarListeners: Listeners = { listen: 14_483, admin: 14_081 }
