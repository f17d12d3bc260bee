/** Preloaded into the processes of a demo: one that is gone cannot end them any more. */
process.on('disconnect', () => process.exit(1));
