/** Where a data plane keeps what it writes. */
export const STATE_PATH = '/var/lib/portico'
export const STATE_VOLUME = 'portico-state'

export const stateMount = { name: STATE_VOLUME, mountPath: STATE_PATH }
export const stateEnvironment = [{ name: 'PORTICO_STATE_DIR', value: STATE_PATH }]
