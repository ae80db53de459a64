/** Thrown by a job that waits for another one. The job runs again after a few seconds. This is not a failure. */
export class RunLater extends Error {}
