/** Ports on which a data plane listens in its pod. */
export interface Listeners {
  readonly listen: number
  readonly admin: number
}

/** In a pod of its own. */
export const gatewayListeners: Listeners = { listen: 4483, admin: 8081 }
export const registryListeners: Listeners = { listen: 8080, admin: 8081 }
/** Beside a user's container, out of the way of the usual ports. */
export const sidecarListeners: Listeners = { listen: 14_483, admin: 14_081 }
