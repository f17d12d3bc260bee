/** Preloaded into app processes: when the test process is gone without saying so, nobody else would ever end this one. */
process.on('disconnect', () => process.exit(1));
